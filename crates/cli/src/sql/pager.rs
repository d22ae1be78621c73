//! Shows results that are larger than the terminal in a pager: `COSCAN_PAGER`, `PAGER`, or `less`, which can scroll
//! sideways.

use std::io::{self, Write};
use std::process::{Command, Stdio};

/// Width and height of the terminal, in characters.
pub type Size = (usize, usize);

/// Returns true if the text is larger than the terminal minus two lines for the following output.
fn is_larger(text: &str, (width, height): Size) -> bool {
    text.lines().count() + 2 > height || text.lines().any(|line| line.chars().count() > width)
}

/// Prints a text. Uses a pager if the text does not fit and a pager exists.
pub fn print(text: &str, terminal: Option<Size>) -> io::Result<()> {
    if terminal.is_some_and(|size| is_larger(text, size)) && page(text) {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Runs the pager. Returns true if it showed the text.
fn page(text: &str) -> bool {
    let set = |name| std::env::var(name).ok().filter(|program: &String| !program.trim().is_empty());
    let program = set("COSCAN_PAGER").or_else(|| set("PAGER")).unwrap_or_else(|| "less".to_owned());
    let mut command = Command::new("sh");
    command.args(["-c", &program]).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", "-RSX");
    }
    let Ok(mut child) = command.spawn() else { return false };
    if let Some(mut input) = child.stdin.take() {
        // A reader that leaves early does not want the rest.
        let _ = input.write_all(text.as_bytes());
    }
    // The shell's exit code for a missing program is 127.
    child.wait().is_ok_and(|status| status.code() != Some(127))
}

#[cfg(test)]
mod tests {
    use super::is_larger;

    #[test]
    fn long_and_wide_texts_do_not_fit() {
        assert!(!is_larger("é23\n", (3, 3)));
        assert!(is_larger("1234\n", (3, 24)));
        assert!(is_larger("1\n2\n3\n", (80, 4)));
    }
}
