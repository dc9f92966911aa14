//! What the arguments of a launch must be, on every target.

use super::{KernelArgs, Plain};
use crate::Error;

/// Refuses arguments of another version of the interface, for structs that say theirs, and of another size than
/// `expected` bytes, which is the kernel's.
pub fn check_arguments<T: Plain>(kernel: &str, args: &T, expected: u64) -> Result<(), Error> {
    let bytes = args.as_bytes();
    if let Some(version) = T::VERSION {
        check_version(kernel, bytes, version)?;
    }
    check_size(kernel, bytes, expected)
}

/// Refuses a kernel that takes other arguments.
pub fn check_taken<T: KernelArgs>(kernel: &str) -> Result<(), Error> {
    if T::KERNELS.contains(&kernel) {
        return Ok(());
    }
    Err(Error::ArgumentType { kernel: kernel.to_owned(), args: T::NAME, known: T::KERNELS.join(", ") })
}

/// Refuses arguments of another size than the kernel's.
pub fn check_size(kernel: &str, args: &[u8], expected: u64) -> Result<(), Error> {
    if args.len() as u64 == expected {
        return Ok(());
    }
    Err(Error::ArgumentSize { kernel: kernel.to_owned(), found: args.len(), expected })
}

/// Compares the two words that arguments begin with: version of their interface, and size in bytes.
fn check_version(kernel: &str, args: &[u8], version: u32) -> Result<(), Error> {
    let word =
        |at: usize| args.get(at..at + 4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
    let (found, expected) = ((word(0), word(4)), (Some(version), u32::try_from(args.len()).ok()));
    if found == expected {
        return Ok(());
    }
    let words = |(version, size): (Option<u32>, Option<u32>)| {
        format!("version {} of {} bytes", version.unwrap_or(0), size.unwrap_or(0))
    };
    Err(Error::ArgumentVersion { kernel: kernel.to_owned(), found: words(found), expected: words(expected) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{BENCH_ABI_VERSION, DigestArgs, UnitHeader};

    #[test]
    fn arguments_of_another_version_or_size_are_refused() {
        let right = DigestArgs::new();
        let size = size_of::<DigestArgs>() as u64;
        assert!(check_arguments("digest", &right, size).is_ok());
        let older = DigestArgs { abi_version: BENCH_ABI_VERSION - 1, ..right };
        assert_eq!(
            check_arguments("digest", &older, size).unwrap_err().to_string(),
            format!(
                "kernel digest: arguments of version {} of {size} bytes, but it takes version {BENCH_ABI_VERSION} of {size} bytes",
                BENCH_ABI_VERSION - 1
            )
        );
        assert!(check_arguments("digest", &DigestArgs { size: 0, ..right }, size).is_err());
        let text = check_arguments("digest", &right, size + 8).unwrap_err().to_string();
        assert_eq!(text, format!("kernel digest: arguments of {size} bytes, but it takes {}", size + 8));
    }

    #[test]
    fn a_struct_without_version_is_compared_by_size_alone() {
        let size = size_of::<UnitHeader>() as u64;
        assert!(check_arguments("k", &UnitHeader::new(), size).is_ok());
        assert!(check_arguments("k", &UnitHeader::new(), size - 8).is_err());
    }
}
