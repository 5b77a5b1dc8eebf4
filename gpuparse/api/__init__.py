"""The names of `import gpuparse`: parsers, their results, and training."""
