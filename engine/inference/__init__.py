"""Language models behind one protocol, and the backends that serve them."""
