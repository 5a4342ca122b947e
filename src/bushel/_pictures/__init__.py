"""Small pictures of values, for people to look at: thumbnails, heat maps, strips."""
