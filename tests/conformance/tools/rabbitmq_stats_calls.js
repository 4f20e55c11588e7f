// rabbitmq-stats from npm: every function. node rabbitmq_stats_calls.js HTTP_HOST HTTP_PORT AMQP_PORT
'use strict';

const stats = require('rabbitmq-stats');

const [host, httpPort] = process.argv.slice(2);
const client = stats(`http://${host}:${httpPort}`, 'guest', 'guest');

async function tried(call, run) {
  try {
    const found = await run();
    console.log(JSON.stringify({ call, works: true, error: '' }));
    return found;
  } catch (error) {
    console.log(JSON.stringify({ call, works: false, error: String(error.message).slice(0, 300) }));
    return undefined;
  }
}

async function main() {
  await tried('getOverview', () => client.getOverview());
  const nodes = (await tried('getNodes', () => client.getNodes())) || [{ name: 'none' }];
  await tried('getNode', () => client.getNode(nodes[0].name));
  await tried('getExtensions', () => client.getExtensions());
  await tried('whoAmI', () => client.whoAmI());
  await tried('putVhost', () => client.putVhost('conf-vhost', {}));
  await tried('getVhosts', () => client.getVhosts());
  await tried('getVhost', () => client.getVhost('conf-vhost'));
  await tried('putUser', () => client.putUser('conf-user', { password: 'secret', tags: 'management' }));
  await tried('getUsers', () => client.getUsers());
  await tried('getUser', () => client.getUser('conf-user'));
  const everything = { configure: '.*', write: '.*', read: '.*' };
  await tried('setUserPermissions', () => client.setUserPermissions('conf-user', 'conf-vhost', everything));
  await tried('getUserPermissions', () => client.getUserPermissions('conf-user'));
  await tried('putVhostExchange', () => client.putVhostExchange('/', 'conf-exchange', { type: 'topic', durable: true }));
  await tried('getExchanges', () => client.getExchanges());
  await tried('getVhostExchanges', () => client.getVhostExchanges('/'));
  await tried('getVhostExchange', () => client.getVhostExchange('/', 'conf-exchange'));
  await tried('putVhostQueue', () => client.putVhostQueue('/', 'conf-queue', { durable: true }));
  await tried('getQueues', () => client.getQueues());
  await tried('getVhostQueues', () => client.getVhostQueues('/', { page: 1, page_size: 10 }));
  await tried('getVhostQueue', () => client.getVhostQueue('/', 'conf-queue'));
  await tried('getBindings', () => client.getBindings());
  await tried('getVhostBindings', () => client.getVhostBindings('/'));
  await tried('deleteVhostQueueContents', () => client.deleteVhostQueueContents('/', 'conf-queue'));
  await tried('deleteVhostQueue', () => client.deleteVhostQueue('/', 'conf-queue'));
  await tried('deleteVhostExchange', () => client.deleteVhostExchange('/', 'conf-exchange'));
  await tried('getConnections', () => client.getConnections());
  await tried('getChannels', () => client.getChannels());
  await tried('getConsumers', () => client.getConsumers());
  await tried('getVhostConsumers', () => client.getVhostConsumers('/'));
  await tried('getPolicies', () => client.getPolicies());
  await tried('deleteUser', () => client.deleteUser('conf-user'));
  await tried('deleteVhost', () => client.deleteVhost('conf-vhost'));
}

main();
