//! Cooperative scans on several machines.
