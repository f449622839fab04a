"""Seeds of the fuzz targets, by what they are: models, tokenizers, messages, other inputs."""
