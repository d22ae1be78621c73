//! Bytes of rows: those of their values, not of the buffers that they are slices of.

use datafusion::arrow::array::{Array, ArrayData};
use datafusion::arrow::datatypes::DataType;

/// Maximum bytes of a value that is stored inside a view.
const INLINE_MAX: u32 = 12;

/// Bytes of an array's values.
pub(crate) fn bytes_of(array: &dyn Array) -> usize {
    let data = array.to_data();
    data.get_slice_memory_size().unwrap_or_else(|_| data.get_array_memory_size()).saturating_add(seen(&data))
}

/// Bytes that views refer to, which Arrow does not count: many views may refer to one buffer.
fn seen(data: &ArrayData) -> usize {
    let own = match data.data_type() {
        DataType::Utf8View | DataType::BinaryView => {
            let views = data.buffer::<u128>(0).iter().take(data.len());
            views
                .map(|view| *view as u32)
                .filter(|&length| length > INLINE_MAX)
                .map(|length| length as usize)
                .sum()
        }
        _ => 0,
    };
    data.child_data().iter().map(seen).fold(own, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ListArray, StringArray, StringViewArray};
    use datafusion::arrow::buffer::OffsetBuffer;
    use datafusion::arrow::datatypes::Field;

    use super::*;

    #[test]
    fn texts_count_whichever_way_they_are_kept() {
        let text = "x".repeat(1000);
        let views = StringViewArray::from_iter_values(std::iter::repeat_n(&text, 50));
        assert_eq!(bytes_of(&views), 50 * (1000 + 16));
        assert_eq!(bytes_of(&views.slice(10, 5)), 5 * (1000 + 16));
        let texts = StringArray::from_iter_values(std::iter::repeat_n(&text, 50));
        assert_eq!(bytes_of(&texts), 50 * 1000 + 51 * 4);
        let field = Arc::new(Field::new("item", DataType::Utf8View, true));
        let list = ListArray::new(field, OffsetBuffer::from_lengths([50]), Arc::new(views), None);
        assert_eq!(bytes_of(&list), 50 * (1000 + 16) + 2 * 4);
    }
}
