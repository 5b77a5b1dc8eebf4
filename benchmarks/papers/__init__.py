"""The systems of three papers, and tables with the figures of a paper beside ours."""
