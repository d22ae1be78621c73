//! Hidden files, which engines write beside their tables.

/// Returns whether a name is that of a hidden file or folder, by the rules of Hive, Spark and pyarrow:
/// unfinished files, transaction logs, checksums. Folders of a key whose name begins with an underscore
/// (`_k=1`) are not hidden.
pub(crate) fn is_hidden(name: &str, is_folder: bool) -> bool {
    name.starts_with('.') || name.starts_with('_') && !(is_folder && name.contains('='))
}
