"""The work that users ask for: parsing, training, records; the doors translate and print."""
