//! The name under which a build keeps an image of nvcc's: all that decides about its content, so that what is there by
//! that name need not be compiled again.

use crate::fnv::Fnv;

/// Of the image `name`, made by this version of nvcc, with these options, from sources with this hash.
pub fn kept_image(sources: &str, nvcc: &str, options: &[&str], name: &str) -> String {
    let options = options.iter().fold(Fnv::new(), |hash, option| hash.text(option)).hex();
    format!("{sources}.{nvcc}.{options}.{name}.lzma")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn whatever_decides_about_an_image_gives_it_another_name() {
        let options = ["-std=c++20", "-O3"];
        let kept = |options: &[&str]| kept_image("1234", "13.0.88", options, "proof.compute_75.ptx");
        assert_eq!(kept(&options), kept(&options));
        let names = [
            kept(&options),
            kept(&["-std=c++20", "-O2"]),
            kept(&["-std=c++20", "-O3", "-lineinfo"]),
            kept(&["-O3", "-std=c++20"]),
            kept(&["-std=c++20-O3"]),
            kept(&[]),
            kept_image("1235", "13.0.88", &options, "proof.compute_75.ptx"),
            kept_image("1234", "13.1.10", &options, "proof.compute_75.ptx"),
            kept_image("1234", "13.0.88", &options, "proof.sm_75.cubin"),
        ];
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
        assert!(names.iter().all(|name| !name.contains(['/', ' '])), "{names:?}");
    }
}
