//! Decimals as text, and back, without a float in between.

use super::Misfit;
use super::text::shown;
use super::write::push_shown;

/// Most digits of an i128.
const MAX_DIGITS: usize = 39;

/// Appends `unscaled` / 10^`scale` in quotes, with `scale` digits behind the point.
pub(super) fn push(unscaled: i128, scale: u8, out: &mut String) {
    let scale = usize::from(scale);
    let digits = format!("{:0width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if unscaled < 0 { "-" } else { "" };
    let point = if scale == 0 { "" } else { "." };
    push_shown(format_args!("\"{sign}{whole}{point}{fraction}\""), out);
}

/// The number of a text such as `-1.50` or `15e-1`, in units of 10^-`scale`.
pub(super) fn read(text: &str, scale: u8) -> Result<i128, Misfit> {
    let Some((negative, mut digits, exponent)) = parse(text) else {
        return Err(Misfit::WrongType(format!("text: {}", shown(text))));
    };
    if digits.is_empty() {
        return Ok(0);
    }
    let shift = exponent.saturating_add(i64::from(scale));
    if shift < 0 {
        let kept = usize::try_from(shift.unsigned_abs()).ok().and_then(|cut| digits.len().checked_sub(cut));
        let (kept, cut) = digits.split_at(kept.unwrap_or(0));
        if kept.is_empty() || cut.bytes().any(|digit| digit != b'0') {
            return Err(Misfit::OutOfRange(format!("{} has more than {scale} digits behind the point", shown(text))));
        }
        digits.truncate(kept.len());
    }
    let zeros = usize::try_from(shift.max(0)).unwrap_or(usize::MAX);
    let fits = digits.len().saturating_add(zeros) <= MAX_DIGITS;
    let magnitude = fits.then(|| digits + &"0".repeat(zeros)).and_then(|digits| digits.parse::<i128>().ok());
    magnitude
        .map(|magnitude| if negative { -magnitude } else { magnitude })
        .ok_or_else(|| Misfit::OutOfRange(format!("{} has too many digits", shown(text))))
}

/// Sign, digits without leading zeros, and the power of ten that they are multiplied by.
fn parse(text: &str) -> Option<(bool, String, i64)> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = rest
        .split_once(['e', 'E'])
        .map_or((rest, Some(0)), |(mantissa, exponent)| (mantissa, exponent.parse::<i64>().ok()));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let exponent = exponent?.saturating_sub(i64::try_from(fraction.len()).ok()?);
    Some((negative, digits.trim_start_matches('0').to_owned(), exponent))
}
