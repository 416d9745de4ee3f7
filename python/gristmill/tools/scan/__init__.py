"""Checking every row of a data set: `gristmill scan`.

`run` goes over the rows, `workers` decode them, `log` is the file that an interrupted scan resumes
from, `merge` joins the parts of a job array, and `report` is what is found.
"""
