"""What is done with models and results, and parsing does not need."""
