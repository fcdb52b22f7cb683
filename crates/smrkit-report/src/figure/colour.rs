//! The colours of figures, and of what stands around them on light and on dark ground.
//!
//! They are those of Okabe and Ito (2008), which people with any common colour blindness can tell apart, and wine of Tol
//! (2021).

/// A colour: red, green, blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour(pub u8, pub u8, pub u8);

impl Colour {
    /// The conventional disk.
    pub const GREY: Colour = Colour(0x77, 0x77, 0x77);
    /// Writes for the host.
    pub const SKY: Colour = Colour(0x56, 0xB4, 0xE9);
    /// Destaging.
    pub const ORANGE: Colour = Colour(0xE6, 0x9F, 0x00);
    /// Cleaning.
    pub const VERMILION: Colour = Colour(0xD5, 0x5E, 0x00);
    /// Maps.
    pub const PINK: Colour = Colour(0xCC, 0x79, 0xA7);
    /// The last of the palette, too dark for dark ground.
    const WINE: Colour = Colour(0x88, 0x22, 0x55);
    /// The colour that can't be seen on dark ground, and the one that stands for it there.
    pub const ON_DARK: (Colour, Colour) = (Colour::WINE, Colour(0xF0, 0xE4, 0x42));
    /// The palette of runs and series; `GREY` is kept for the conventional disk.
    pub const PALETTE: [Colour; 7] = [
        Colour(0x00, 0x72, 0xB2),
        Colour::VERMILION,
        Colour(0x00, 0x9E, 0x73),
        Colour::PINK,
        Colour::ORANGE,
        Colour::SKY,
        Colour::WINE,
    ];

    /// The nth colour of the palette, from the start again after the last.
    pub const fn nth(n: usize) -> Colour {
        Colour::PALETTE[n % Colour::PALETTE.len()]
    }

    /// As CSS writes it.
    pub fn hex(self) -> String {
        format!("#{:02X}{:02X}{:02X}", self.0, self.1, self.2)
    }

    /// The colour of a strip's cell: from pale to dark blue as `share` goes from 0 to 1.
    pub fn strip(share: f64) -> Colour {
        const STOPS: [Colour; 4] =
            [Colour(0xDD, 0xE8, 0xF4), Colour(0x8F, 0xBC, 0xE0), Colour(0x2B, 0x7B, 0xBA), Colour(0x08, 0x2A, 0x5C)];
        let at = share.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
        let (from, to) = (STOPS[at as usize], STOPS[(at as usize + 1).min(STOPS.len() - 1)]);
        let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * at.fract()).round() as u8;
        Colour(mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
    }
}

/// The colours of what is no data: text, axes, grid.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    /// Text.
    pub ink: Colour,
    /// Text that steps back.
    pub pale: Colour,
    /// Axes.
    pub rule: Colour,
    /// The grid behind the data.
    pub grid: Colour,
}

impl Theme {
    /// On white.
    pub const LIGHT: Theme = Theme {
        ink: Colour(0x22, 0x22, 0x22),
        pale: Colour(0x66, 0x66, 0x66),
        rule: Colour(0x88, 0x88, 0x88),
        grid: Colour(0xE4, 0xE4, 0xE4),
    };
    /// On a page that is nearly black.
    pub const DARK: Theme = Theme {
        ink: Colour(0xE2, 0xE2, 0xE2),
        pale: Colour(0xA6, 0xA6, 0xA6),
        rule: Colour(0x77, 0x77, 0x77),
        grid: Colour(0x38, 0x38, 0x38),
    };
}
