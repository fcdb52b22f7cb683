//! The figures' rows, and that what must hold on small disks does.
