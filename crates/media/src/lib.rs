//! Models of removable media and the scheduler over them.
