//! What may be written where, and a checker that stands apart from the allocator.
