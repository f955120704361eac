//! The validated `format`s of schemas; others are ignored, as on the real server.

mod address;
mod notation;
mod time;

use super::node::Type;

/// A validated format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    BsonObjectId,
    Byte,
    Cidr,
    CreditCard,
    Date,
    DateTime,
    /// `datetime`: the same, but errors contain the name as written.
    PlainDateTime,
    Double,
    Duration,
    Email,
    Float,
    HexColor,
    Hostname,
    Int32,
    Int64,
    Ipv4,
    Ipv6,
    Isbn,
    Isbn10,
    Isbn13,
    LongName,
    Mac,
    Password,
    RgbColor,
    ShortName,
    Ssn,
    Uri,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
}

const TEXT_FORMATS: [Format; 27] = [
    Format::BsonObjectId,
    Format::Byte,
    Format::Cidr,
    Format::CreditCard,
    Format::Date,
    Format::DateTime,
    Format::PlainDateTime,
    Format::Duration,
    Format::Email,
    Format::HexColor,
    Format::Hostname,
    Format::Ipv4,
    Format::Ipv6,
    Format::Isbn,
    Format::Isbn10,
    Format::Isbn13,
    Format::LongName,
    Format::Mac,
    Format::Password,
    Format::RgbColor,
    Format::ShortName,
    Format::Ssn,
    Format::Uri,
    Format::Uuid,
    Format::Uuid3,
    Format::Uuid4,
    Format::Uuid5,
];

impl Format {
    /// Returns the format of a schema of this type, if it is validated.
    pub(super) fn of_schema(
        type_name: Option<Type>,
        int_or_string: bool,
        name: &str,
    ) -> Option<Self> {
        match type_name.filter(|_| !int_or_string) {
            None | Some(Type::String) => TEXT_FORMATS
                .into_iter()
                .find(|format| format.name() == name),
            Some(Type::Integer) => [Self::Int32, Self::Int64]
                .into_iter()
                .find(|format| format.name() == name),
            Some(Type::Number) => [Self::Float, Self::Double]
                .into_iter()
                .find(|format| format.name() == name),
            Some(Type::Array | Type::Boolean | Type::Object) => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::BsonObjectId => "bsonobjectid",
            Self::Byte => "byte",
            Self::Cidr => "cidr",
            Self::CreditCard => "creditcard",
            Self::Date => "date",
            Self::DateTime => "date-time",
            Self::PlainDateTime => "datetime",
            Self::Double => "double",
            Self::Duration => "duration",
            Self::Email => "email",
            Self::Float => "float",
            Self::HexColor => "hexcolor",
            Self::Hostname => "hostname",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Isbn => "isbn",
            Self::Isbn10 => "isbn10",
            Self::Isbn13 => "isbn13",
            Self::LongName => "k8s-long-name",
            Self::Mac => "mac",
            Self::Password => "password",
            Self::RgbColor => "rgbcolor",
            Self::ShortName => "k8s-short-name",
            Self::Ssn => "ssn",
            Self::Uri => "uri",
            Self::Uuid => "uuid",
            Self::Uuid3 => "uuid3",
            Self::Uuid4 => "uuid4",
            Self::Uuid5 => "uuid5",
        }
    }

    /// Returns `true` if a string has this format.
    pub(super) fn matches(self, text: &str) -> bool {
        match self {
            Self::BsonObjectId => text.len() == 24 && text.chars().all(|c| c.is_ascii_hexdigit()),
            Self::Byte => notation::is_base64(text),
            Self::Cidr => address::is_cidr(text),
            Self::CreditCard => notation::is_credit_card(text),
            Self::Date => time::is_date(text),
            Self::DateTime | Self::PlainDateTime => time::is_date_time(text),
            Self::Duration => time::is_duration(text),
            Self::Email => address::is_email(text),
            Self::HexColor => notation::is_hex_color(text),
            Self::Hostname => address::is_hostname(text),
            Self::Ipv4 => address::is_ipv4(text),
            Self::Ipv6 => address::is_ipv6(text),
            Self::Isbn => notation::is_isbn10(text) || notation::is_isbn13(text),
            Self::Isbn10 => notation::is_isbn10(text),
            Self::Isbn13 => notation::is_isbn13(text),
            Self::LongName => address::is_long_name(text),
            Self::Mac => address::is_mac(text),
            Self::RgbColor => notation::is_rgb_color(text),
            Self::ShortName => address::is_short_name(text),
            Self::Ssn => notation::is_ssn(text),
            Self::Uri => address::is_request_uri(text),
            Self::Uuid => notation::is_uuid(text, None),
            Self::Uuid3 => notation::is_uuid(text, Some('3')),
            Self::Uuid4 => notation::is_uuid(text, Some('4')),
            Self::Uuid5 => notation::is_uuid(text, Some('5')),
            Self::Password | Self::Double | Self::Float | Self::Int32 | Self::Int64 => true,
        }
    }

    /// Returns `true` if the format applies to strings; the others restrict the range of numbers.
    pub(super) fn is_for_text(self) -> bool {
        !matches!(self, Self::Int32 | Self::Int64 | Self::Float | Self::Double)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_belong_to_types() {
        let of = |type_name, name| Format::of_schema(type_name, false, name);
        assert_eq!(of(Some(Type::String), "date"), Some(Format::Date));
        assert_eq!(of(None, "date-time"), Some(Format::DateTime));
        assert_eq!(of(Some(Type::String), "int32"), None);
        assert_eq!(of(Some(Type::Integer), "int32"), Some(Format::Int32));
        assert_eq!(of(Some(Type::Integer), "double"), None);
        assert_eq!(of(Some(Type::Boolean), "date"), None);
        assert_eq!(of(Some(Type::String), "made-up"), None);
        assert_eq!(Format::of_schema(None, true, "int32"), None);
    }
}
