"""One client connection: decoder to handlers, acknowledgements in order, flow control, output."""
