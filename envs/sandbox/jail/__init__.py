"""What runs inside the jails. Imports nothing but the standard library, and as little of that as possible."""
