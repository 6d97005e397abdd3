"""LLMLingua, LongLLMLingua and LLMLingua-2: a compressor rewrites the documents."""
