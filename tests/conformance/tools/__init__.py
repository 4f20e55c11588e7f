"""Tools that people use with RabbitMQ's management API, each in a script of its own: every call that it has.

A script is run with the interpreter of the tools' own environment: `script HTTP_HOST HTTP_PORT AMQP_PORT`. It prints a
line of JSON for each call: its name, whether it worked, and why not.
"""
