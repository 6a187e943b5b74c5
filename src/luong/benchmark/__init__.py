"""How fast the kernels are beside what people write by hand: `luong bench`.

A `Problem` holds the calls that compete and says how wrong a result is; `timing` runs them in turn,
`process` runs a measurement in a process of its own, `suite` runs it all and writes the tables.
"""
