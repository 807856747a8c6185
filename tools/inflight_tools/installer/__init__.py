"""A page that installs boards from the browser."""
