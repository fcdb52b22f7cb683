//! `smrkit drives`: the drives that come with smrkit, every value with its source, the seek curve drawn.
