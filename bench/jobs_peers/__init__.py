"""The contenders of the suite `jobs`: each in a file of its own, each run in processes of its own.

Their packages are imported only inside those processes: what is not installed is reported, and the rest runs.
"""
