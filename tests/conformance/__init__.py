"""The management API held against RabbitMQ's: the same scene at both, the same questions, the shapes of the answers.

`python -m tests.conformance.record` asks a real RabbitMQ and writes the shapes of its answers to `shapes.json`;
`make test` holds ours against that file.
"""
