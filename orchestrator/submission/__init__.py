"""A sweep as a job of a Ray cluster that runs already: what is uploaded, the job server, and the verb `submit`."""
