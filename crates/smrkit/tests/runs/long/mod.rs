//! Runs that take as long as all others together: `make test` leaves them out, and `.ci/run` runs them.

mod rebuild_times;
