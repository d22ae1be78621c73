//! Foreign tables and nodes: files without a version, nodes that rely on the order of rows, nodes that refuse
//! other inputs.

mod nodes;
mod table;
mod unversioned;
