//! Tables in a slow tier.
