//! Files that engines write beside their tables.

/// Whether a name is that of something hidden, as Hive, Spark and pyarrow have it: unfinished files, logs of transactions,
/// sums of bytes. Folders of a key whose name begins with an underscore (`_k=1`) are not.
pub(crate) fn is_hidden(name: &str, is_folder: bool) -> bool {
    name.starts_with('.') || name.starts_with('_') && !(is_folder && name.contains('='))
}
