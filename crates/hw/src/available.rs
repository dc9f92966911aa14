//! How much memory the machine can give: one that cannot give it all does not refuse it, but ends processes.

use crate::{BASE_PAGE, MemoryError, Window};

/// Whether there is memory for all pages of a fresh window.
pub(crate) fn check(window: &Window) -> Result<(), MemoryError> {
    // Huge pages were set aside before.
    let available = if window.memory().page_size() > BASE_PAGE { None } else { available() };
    fits(window.len(), available)
}

/// What the kernel can give without swapping; `None` where it does not say.
fn available() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<usize>().ok()?.checked_mul(1024)
}

fn fits(len: usize, available: Option<usize>) -> Result<(), MemoryError> {
    match available {
        Some(available) if len > available => Err(MemoryError::Unavailable { len, available }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_machine_has_is_refused_with_both_numbers() {
        let has = available().expect("Linux says what it has");
        assert!(has > 1 << 20 && has < 1 << 50, "{has}");
        let text = fits(has + 1, Some(has)).unwrap_err().to_string();
        assert!(
            text.contains(&format!("{} bytes", has + 1)) && text.contains(&format!("{has} bytes")),
            "{text}"
        );
        assert!(fits(has, Some(has)).is_ok() && fits(usize::MAX, None).is_ok());
        // Far more than any machine has, but none of it is touched. A system may refuse it by itself.
        let Ok(window) = Window::host(1 << 44) else { return };
        let asked = check(&window).map_err(|error| error.to_string());
        assert!(window.memory().page_size() > BASE_PAGE || asked.is_err(), "{asked:?}");
    }
}
