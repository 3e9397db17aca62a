//! Plots as pixels. Owns the fonts they are drawn with; refuses to draw without any: a plot without
//! words misleads.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};
use std::sync::Arc;

/// Pixels for each unit of the SVG: sharp on dense screens and in print.
const SCALE: f32 = 2.0;

/// Families that systems come with, in the order of preference.
const FAMILIES: [&str; 6] =
    ["DejaVu Sans", "Liberation Sans", "Noto Sans", "Arial", "Helvetica", "Ubuntu"];

/// Plots have no pixels.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum PngError {
    /// It is no SVG.
    #[error("the SVG cannot be read")]
    Svg(#[source] resvg::usvg::Error),
    /// It is too large.
    #[error("no room for {width} x {height} pixels")]
    NoRoom { width: u32, height: u32 },
    /// It has no form as PNG.
    #[error("the PNG cannot be encoded: {0}")]
    Encoded(String),
}

/// Draws SVG as PNG.
pub struct Renderer {
    options: Options<'static>,
}

impl Renderer {
    /// With the system's fonts; `None` where it has none.
    pub fn new() -> Option<Renderer> {
        let mut fonts = fontdb::Database::new();
        fonts.load_system_fonts();
        Renderer::with(fonts)
    }

    fn with(mut fonts: fontdb::Database) -> Option<Renderer> {
        let has = |name: &&str| {
            fonts.faces().any(|face| face.families.iter().any(|family| family.0 == **name))
        };
        let first = || fonts.faces().next().and_then(|face| Some(face.families.first()?.0.clone()));
        let family = FAMILIES.iter().find(|name| has(name)).map(|name| (*name).to_owned());
        let family = family.or_else(first)?;
        fonts.set_sans_serif_family(family);
        Some(Renderer { options: Options { fontdb: Arc::new(fonts), ..Options::default() } })
    }

    /// The pixels as a PNG file.
    ///
    /// # Errors
    /// Where the SVG cannot be read, or is too large for memory.
    pub fn png(&self, svg: &str) -> Result<Vec<u8>, PngError> {
        let tree = Tree::from_str(svg, &self.options).map_err(PngError::Svg)?;
        let side = |length: f32| (length * SCALE).ceil() as u32;
        let (width, height) = (side(tree.size().width()), side(tree.size().height()));
        let mut pixels = Pixmap::new(width, height).ok_or(PngError::NoRoom { width, height })?;
        resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
        pixels.encode_png().map_err(|error| PngError::Encoded(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SVG: &str = r##"<svg width="30" height="10" xmlns="http://www.w3.org/2000/svg"><rect width="30" height="10" fill="#ff0000"/></svg>"##;

    #[test]
    fn a_picture_keeps_its_size_and_its_colours() {
        let renderer = Renderer { options: Options::default() };
        let png = renderer.png(SVG).unwrap();
        let back = Pixmap::decode_png(&png).unwrap();
        assert_eq!((back.width(), back.height()), (60, 20));
        assert!(
            back.pixels()
                .iter()
                .all(|p| (p.red(), p.green(), p.blue(), p.alpha()) == (255, 0, 0, 255))
        );
        assert!(renderer.png("<svg").is_err());
    }

    #[test]
    fn without_a_font_nothing_is_drawn() {
        assert!(Renderer::with(fontdb::Database::new()).is_none());
    }
}
