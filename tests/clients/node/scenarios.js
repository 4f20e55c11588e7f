// What users of amqplib do, one scenario each. `node scenarios.js URL NAME` runs one, `node scenarios.js` lists them.
'use strict'

const assert = require('node:assert/strict')
const crypto = require('node:crypto')
const { once } = require('node:events')

const amqp = require('amqplib')
const callbacks = require('amqplib/callback_api')

const DEADLINE_MS = 10_000

const unique = (prefix) => `test.${prefix}.${crypto.randomUUID()}`

async function temporaryQueue (channel, options = {}) {
  return (await channel.assertQueue('', { exclusive: true, ...options })).queue
}

// Messages of a consumer, one promise after the other.
async function inbox (channel, queue, options = {}) {
  const arrived = []
  const waiting = []
  await channel.consume(queue, (message) => {
    if (waiting.length) waiting.shift()(message)
    else arrived.push(message)
  }, options)
  return () => arrived.length ? Promise.resolve(arrived.shift()) : new Promise((resolve) => waiting.push(resolve))
}

// The error with which a channel closes.
async function closedBy (channel, act) {
  const closed = once(channel, 'error')
  act().catch(() => {})
  return (await closed)[0]
}

const scenarios = {
  async publish_and_consume (connection) {
    const channel = await connection.createChannel()
    const queue = await temporaryQueue(channel)
    const next = await inbox(channel, queue)
    const properties = {
      contentType: 'text/plain',
      headers: { text: 'ü', int: -7, big: 2 ** 40, float: 1.5, yes: true, none: null, list: [1, 'a'], table: { a: 1 } },
      priority: 3,
      correlationId: 'c',
      messageId: 'm',
      timestamp: 1700000000,
      type: 't',
      appId: 'a',
      persistent: true
    }
    channel.sendToQueue(queue, Buffer.from('hello'), properties)
    const message = await next()
    assert.equal(message.content.toString(), 'hello')
    assert.deepEqual({ ...message.properties.headers }, properties.headers)
    for (const name of ['contentType', 'priority', 'correlationId', 'messageId', 'timestamp', 'type', 'appId']) {
      assert.equal(message.properties[name], properties[name], name)
    }
    assert.equal(message.properties.deliveryMode, 2)
    channel.ack(message)
    assert.equal((await channel.checkQueue(queue)).messageCount, 0)
  },

  async confirms (connection) {
    const channel = await connection.createConfirmChannel()
    const queue = await temporaryQueue(channel)
    for (let number = 0; number < 500; number++) channel.sendToQueue(queue, Buffer.from(String(number)))
    await channel.waitForConfirms()
    assert.equal((await channel.checkQueue(queue)).messageCount, 500)
  },

  async nacked_publishes (connection) {
    const channel = await connection.createConfirmChannel()
    const queue = await temporaryQueue(channel, { maxLength: 1, arguments: { 'x-overflow': 'reject-publish' } })
    channel.sendToQueue(queue, Buffer.from('fits'))
    await channel.waitForConfirms()
    channel.sendToQueue(queue, Buffer.from('does not'))
    await assert.rejects(channel.waitForConfirms())
  },

  async nack_and_redelivery (connection) {
    const channel = await connection.createChannel()
    await channel.prefetch(1)
    const queue = await temporaryQueue(channel)
    const next = await inbox(channel, queue)
    for (const body of ['a', 'b', 'c']) channel.sendToQueue(queue, Buffer.from(body))
    const first = await next()
    channel.nack(first)
    const again = await next()
    assert.deepEqual([again.content.toString(), again.fields.redelivered], ['a', true])
    channel.ack(again)
    channel.nack(await next(), false, false)
    const last = await next()
    assert.equal(last.content.toString(), 'c')
    channel.ackAll()
    assert.equal(await channel.get(queue), false)
  },

  async dead_letters (connection) {
    const channel = await connection.createChannel()
    const graveyard = await temporaryQueue(channel)
    const queue = await temporaryQueue(channel, {
      messageTtl: 30, deadLetterExchange: '', deadLetterRoutingKey: graveyard
    })
    const next = await inbox(channel, graveyard, { noAck: true })
    channel.sendToQueue(queue, Buffer.from('dead'))
    const dead = await next()
    const [death] = dead.properties.headers['x-death']
    assert.deepEqual([death.queue, death.reason, death.count], [queue, 'expired', 1])
  },

  async exchanges_and_bindings (connection) {
    const channel = await connection.createChannel()
    const source = unique('topic')
    const target = unique('headers')
    await channel.assertExchange(source, 'topic', { autoDelete: true })
    await channel.assertExchange(target, 'headers', { autoDelete: true })
    await channel.bindExchange(target, source, 'a.*')
    const queue = await temporaryQueue(channel)
    await channel.bindQueue(queue, target, '', { 'x-match': 'any', colour: 'red', size: 3 })
    channel.publish(source, 'a.b', Buffer.from('yes'), { headers: { size: 3 } })
    channel.publish(source, 'a.b', Buffer.from('no'), { headers: { size: 4 } })
    channel.publish(source, 'b.b', Buffer.from('no'), { headers: { size: 3 } })
    assert.equal((await channel.get(queue, { noAck: true })).content.toString(), 'yes')
    assert.equal(await channel.get(queue), false)
    await channel.unbindQueue(queue, target, '', { 'x-match': 'any', colour: 'red', size: 3 })
    assert.equal((await closedBy(channel, () => channel.checkExchange(target))).code, 404)
  },

  async alternate_exchange (connection) {
    const channel = await connection.createChannel()
    const exchange = unique('alternate')
    await channel.assertExchange(exchange, 'direct', { alternateExchange: 'amq.fanout', durable: false })
    const queue = await temporaryQueue(channel)
    await channel.bindQueue(queue, 'amq.fanout', '')
    channel.publish(exchange, 'nowhere', Buffer.from('stray'))
    assert.equal((await channel.get(queue, { noAck: true })).content.toString(), 'stray')
    await channel.deleteExchange(exchange)
  },

  async mandatory_returns (connection) {
    const channel = await connection.createChannel()
    const returned = once(channel, 'return')
    channel.publish('', unique('nowhere'), Buffer.from('back'), { mandatory: true })
    const [message] = await returned
    assert.deepEqual([message.fields.replyCode, message.content.toString()], [312, 'back'])
  },

  async direct_reply_to (connection) {
    const channel = await connection.createChannel()
    const requests = await temporaryQueue(channel)
    await channel.consume(requests, (request) => {
      channel.sendToQueue(request.properties.replyTo, Buffer.concat([request.content, Buffer.from('!')]), {
        correlationId: request.properties.correlationId
      })
    }, { noAck: true })
    const answers = await inbox(channel, 'amq.rabbitmq.reply-to', { noAck: true })
    channel.sendToQueue(requests, Buffer.from('hi'), { replyTo: 'amq.rabbitmq.reply-to', correlationId: '7' })
    const answer = await answers()
    assert.deepEqual([answer.content.toString(), answer.properties.correlationId], ['hi!', '7'])
  },

  async priorities (connection) {
    const channel = await connection.createChannel()
    const queue = await temporaryQueue(channel, { maxPriority: 10 })
    for (const priority of [1, 9, 5]) channel.sendToQueue(queue, Buffer.from(String(priority)), { priority })
    const order = []
    for (let count = 0; count < 3; count++) order.push((await channel.get(queue, { noAck: true })).content.toString())
    assert.deepEqual(order, ['9', '5', '1'])
  },

  async expiring_queues (connection) {
    const channel = await connection.createChannel()
    const queue = unique('expires')
    await channel.assertQueue(queue, { expires: 50, durable: false })
    await new Promise((resolve) => setTimeout(resolve, 400))
    assert.equal((await closedBy(channel, () => channel.checkQueue(queue))).code, 404)
  },

  async consumer_priorities (connection) {
    const channel = await connection.createChannel()
    const queue = await temporaryQueue(channel)
    const low = await inbox(channel, queue, { noAck: true, priority: 0 })
    const high = await inbox(channel, queue, { noAck: true, priority: 5 })
    for (let number = 0; number < 4; number++) channel.sendToQueue(queue, Buffer.from(String(number)))
    for (let number = 0; number < 4; number++) assert.equal((await high()).content.toString(), String(number))
    assert.equal(await Promise.race([low(), 'nothing']), 'nothing')
  },

  async cancel_notification (connection) {
    const channel = await connection.createChannel()
    const queue = unique('cancelled')
    await channel.assertQueue(queue, { durable: false })
    const next = await inbox(channel, queue)
    const other = await connection.createChannel()
    await other.deleteQueue(queue)
    assert.equal(await next(), null)
    assert.ok(await temporaryQueue(channel))
  },

  async cancel_by_the_client (connection) {
    const channel = await connection.createChannel()
    const queue = await temporaryQueue(channel)
    const { consumerTag } = await channel.consume(queue, () => {}, { noAck: true })
    await channel.cancel(consumerTag)
    assert.equal((await channel.checkQueue(queue)).consumerCount, 0)
  },

  async channel_errors_leave_the_connection (connection) {
    const channel = await connection.createChannel()
    const error = await closedBy(channel, () => channel.checkQueue(unique('missing')))
    assert.equal(error.code, 404)
    assert.equal(error.classId, 50)
    assert.equal(error.methodId, 10)
    const other = await connection.createChannel()
    const name = unique('equal')
    await other.assertQueue(name, { exclusive: true })
    const inequivalent = await closedBy(other, () => other.assertQueue(name, { exclusive: true, maxLength: 3 }))
    assert.equal(inequivalent.code, 406)
    assert.match(inequivalent.message, /x-max-length/)
    assert.ok(await temporaryQueue(await connection.createChannel()))
  },

  async unknown_delivery_tags (connection) {
    const channel = await connection.createChannel()
    const closed = once(channel, 'error')
    channel.ack({ fields: { deliveryTag: 77 } })
    assert.equal((await closed)[0].code, 406)
  },

  async connection_errors (connection) {
    const channel = await connection.createChannel()
    const closed = once(connection, 'error')
    channel.on('error', () => {})
    channel.assertExchange(unique('bad'), 'unheard-of').catch(() => {})
    assert.equal((await closed)[0].code, 503)
  },

  async recover (connection) {
    const channel = await connection.createChannel()
    const queue = await temporaryQueue(channel)
    const next = await inbox(channel, queue)
    channel.sendToQueue(queue, Buffer.from('x'))
    await next()
    await channel.recover()
    assert.equal((await next()).fields.redelivered, true)
  },

  async update_secret (connection) {
    await connection.updateSecret(Buffer.from('guest'), 'it was time')
    assert.ok(await temporaryQueue(await connection.createChannel()))
  },

  async large_bodies_in_small_frames (connection, url) {
    const small = await amqp.connect(`${url}?frameMax=4096`)
    const channel = await small.createChannel()
    const queue = await temporaryQueue(channel)
    const next = await inbox(channel, queue, { noAck: true })
    const body = crypto.randomBytes(1_000_000)
    channel.sendToQueue(queue, body)
    assert.ok(body.equals((await next()).content))
    await small.close()
  },

  async ten_megabytes (connection) {
    const channel = await connection.createChannel()
    const queue = await temporaryQueue(channel)
    const body = crypto.randomBytes(10_000_000)
    channel.sendToQueue(queue, body)
    let message = false
    while (!message) message = await channel.get(queue, { noAck: true })
    assert.ok(body.equals(message.content))
  },

  async heartbeats (connection, url) {
    const beating = await amqp.connect(`${url}?heartbeat=1`)
    const failed = once(beating, 'error')
    const silence = new Promise((resolve) => setTimeout(() => resolve('alive'), 3_200))
    assert.equal(await Promise.race([failed, silence]), 'alive')
    await beating.close()
  },

  async many_channels (connection) {
    const channels = await Promise.all(Array.from({ length: 100 }, () => connection.createChannel()))
    const queues = await Promise.all(channels.map((channel) => temporaryQueue(channel)))
    assert.equal(new Set(queues).size, 100)
    await Promise.all(channels.map((channel) => channel.close()))
    assert.ok(await temporaryQueue(await connection.createChannel()))
  },

  async wrong_password (connection, url) {
    const wrong = new URL(url)
    wrong.password = 'wrong'
    await assert.rejects(amqp.connect(wrong.href), /403|ACCESS.REFUSED/)
  },

  async unknown_virtual_host (connection, url) {
    const wrong = new URL(url)
    wrong.pathname = '/missing'
    await assert.rejects(amqp.connect(wrong.href), /ConnectionClose|530/) // amqplib keeps the reason to itself
  },

  async capabilities (connection) {
    const announced = connection.connection.serverProperties.capabilities
    for (const name of ['publisher_confirms', 'exchange_exchange_bindings', 'basic.nack', 'consumer_cancel_notify',
      'connection.blocked', 'consumer_priorities', 'authentication_failure_close', 'per_consumer_qos',
      'direct_reply_to']) assert.equal(announced[name], true, name)
  },

  callback_api (connection, url) {
    return new Promise((resolve, reject) => {
      callbacks.connect(url, (error, other) => {
        if (error) return reject(error)
        other.createConfirmChannel((error, channel) => {
          if (error) return reject(error)
          channel.assertQueue('', { exclusive: true }, (error, { queue }) => {
            if (error) return reject(error)
            channel.sendToQueue(queue, Buffer.from('x'), {}, (error) => {
              if (error) return reject(error)
              channel.get(queue, { noAck: true }, (error, message) => {
                if (error) return reject(error)
                other.close(() => message.content.toString() === 'x' ? resolve() : reject(new Error('another body')))
              })
            })
          })
        })
      })
    })
  }
}

async function main (url, name) {
  const deadline = setTimeout(() => { throw new Error(`${name}: not done in ${DEADLINE_MS} ms`) }, DEADLINE_MS)
  const connection = await amqp.connect(url)
  await scenarios[name](connection, url)
  await connection.close().catch(() => {}) // some scenarios end with the broker closing it
  clearTimeout(deadline)
}

const [url, name] = process.argv.slice(2)
if (!url) console.log(Object.keys(scenarios).join('\n'))
else main(url, name).catch((error) => { console.error(error); process.exit(1) })
