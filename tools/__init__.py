"""Small programs behind the make targets."""
