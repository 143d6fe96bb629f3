"""What users need to test their own tools and stores: the store contract, faults and fakes."""
