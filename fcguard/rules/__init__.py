"""Business rules: small callables `(call) -> None | Violation`, and combinators over them."""
