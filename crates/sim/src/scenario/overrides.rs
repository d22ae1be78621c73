//! Settings on top of a file: `--set key=value` and sweeps, by dotted path.

use toml::{Table, Value};

use super::error::KeyError;

/// A key and its new value.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The path, such as `system.buffer` or `stream.0.start`.
    pub key: String,
    /// The value.
    pub value: Value,
}

impl Setting {
    /// Parses `key=value`. The value is TOML; text that is not TOML is a string: `system.buffer=32 chunks`.
    ///
    /// # Errors
    /// If the key is missing.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| format!("'{text}' is not a setting: write key=value, as in system.buffer=1GB"))?;
        let (key, value) = (key.trim().to_owned(), value.trim());
        if key.is_empty() {
            return Err(format!("'{text}' names no key: write key=value, as in system.buffer=1GB"));
        }
        let typed = format!("value = {value}").parse::<Table>().ok().and_then(|mut t| t.remove("value"));
        Ok(Setting { key, value: typed.unwrap_or_else(|| Value::String(value.to_owned())) })
    }

    /// Puts the value in its place in a document.
    pub(super) fn apply(&self, document: &mut Table) -> Result<(), KeyError> {
        let mut path: Vec<&str> = self.key.split('.').collect();
        let last = path.pop().expect("a split has at least one piece");
        let refuse = |what: &str| KeyError::new(&self.key, what);
        let mut place = document;
        let mut rest = path.into_iter();
        while let Some(key) = rest.next() {
            place = match place.entry(key).or_insert_with(|| Value::Table(Table::new())) {
                Value::Table(table) => table,
                Value::Array(array) => {
                    let index = rest.next().and_then(|index| index.parse::<usize>().ok());
                    let element = index.and_then(|at| array.get_mut(at));
                    match element {
                        Some(Value::Table(table)) => table,
                        _ => {
                            return Err(refuse(
                                "there is no such element: give its number, from 0, and a key in it",
                            ));
                        }
                    }
                }
                _ => return Err(refuse("this goes through a key that is no table")),
            };
        }
        place.insert(last.to_owned(), self.value.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_typed_and_bare_text_is_a_string() {
        let value = |text| Setting::parse(text).unwrap().value;
        assert_eq!(value("a=3"), Value::Integer(3));
        assert_eq!(value("a=\"3s\""), Value::String("3s".to_owned()));
        assert_eq!(value("system.buffer=32 chunks"), Value::String("32 chunks".to_owned()));
        assert_eq!(value("a=[1, 2]"), Value::Array(vec![Value::Integer(1), Value::Integer(2)]));
        assert!(Setting::parse("no value").is_err());
        assert!(Setting::parse("=3").is_err());
    }

    #[test]
    fn a_setting_finds_its_place() {
        let mut document: Table = "x = 1\n[a]\nb = 1\n[[s]]\nt = 1\n[[s]]\nt = 2\n".parse().unwrap();
        let mut set = |text| Setting::parse(text).unwrap().apply(&mut document);
        set("a.b=5").unwrap();
        set("a.c=6").unwrap();
        set("s.1.t=7").unwrap();
        assert!(set("s.2.t=7").is_err());
        assert!(set("x.y=7").is_err());
        let expected: Table = "x = 1\n[a]\nb = 5\nc = 6\n[[s]]\nt = 1\n[[s]]\nt = 7\n".parse().unwrap();
        assert_eq!(document, expected);
    }
}
