"""fcguard: governed LLM function calls."""
