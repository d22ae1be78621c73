//! Real tiers against plain DataFusion: an archive class on a server of S3's protocol on the loopback interface, and
//! a folder whose files scripts recall. Times are scaled down.

mod archive;
mod faults;
mod folder;
mod forecasts;
mod lies;
mod others;
mod pauses;
mod plans;
mod random;
mod s3;
mod tables;
mod tpch;
