"""A method and a task for harness, from outside its repository."""
