//! Seeded generators of requests.
