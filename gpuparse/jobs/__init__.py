"""What users ask for: parsing, training, and their records; the doors translate and print."""
