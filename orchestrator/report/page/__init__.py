"""The page of a sweep: its data, the text around them, and the files of a browser that show them."""
