//! The loop: arrivals, queue, warm-up.
