"""One report document and its renderings: terminal, JSON, JUnit, Markdown and HTML."""
