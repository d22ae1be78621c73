//! Digits of numbers: rounding, ordinal suffixes, Roman numerals.

/// Moves the point `shift` places to the right and rounds to `behind` decimal places. Halves are rounded away from
/// zero.
pub(super) fn rounded(digits: &str, shift: usize, behind: usize) -> String {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let kept = shift + behind;
    let mut all: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    let wanted = whole.len() + kept;
    let up = all.get(wanted).is_some_and(|&digit| digit >= b'5');
    all.resize(wanted, b'0');
    if up {
        let mut at = all.len();
        loop {
            if at == 0 {
                all.insert(0, b'1');
                break;
            }
            at -= 1;
            if all[at] == b'9' {
                all[at] = b'0';
            } else {
                all[at] += 1;
                break;
            }
        }
    }
    let text: String = all.into_iter().map(char::from).collect();
    let (whole, fraction) = text.split_at(text.len() - behind);
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    match behind {
        0 => whole.to_owned(),
        _ => format!("{whole}.{fraction}"),
    }
}

/// `st`, `nd`, `rd` or `th`.
pub(super) fn ordinal(number: &str, upper: bool) -> &'static str {
    let digits: Vec<u8> = number.bytes().filter(u8::is_ascii_digit).collect();
    let teens = digits.len() > 1 && digits[digits.len() - 2] == b'1';
    let at = match digits.last() {
        Some(b'1') if !teens => 0,
        Some(b'2') if !teens => 1,
        Some(b'3') if !teens => 2,
        _ => 3,
    };
    if upper { ["ST", "ND", "RD", "TH"][at] } else { ["st", "nd", "rd", "th"][at] }
}

/// A number in Roman digits.
pub(super) fn roman(mut value: u32) -> String {
    const DIGITS: [(u32, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let mut roman = String::new();
    for (worth, digits) in DIGITS {
        while value >= worth {
            roman.push_str(digits);
            value -= worth;
        }
    }
    roman
}
