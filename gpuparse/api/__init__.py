"""What `import gpuparse` offers: parsers, their results, and training."""
