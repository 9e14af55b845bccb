"""A pack as tensors: its active and finished members, their training batches and evaluation inputs."""
