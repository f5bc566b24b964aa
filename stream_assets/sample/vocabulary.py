"""The words of the retail world: people, places, products, notes, pages.

Plain data. Personal data is invented and uses only reserved ranges (example.com, documentation IP blocks, 555-01xx
numbers), so that finding any of it outside its allowed columns is a leak and not a coincidence.
"""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


GIVEN_NAMES = _words(
    "Aurelia Benedikt Clémence Dragomir Esperanza Fiorenzo Gwendolyn Hjalmar Ilaria Joaquín Kazimiera Leopold "
    "Marisol Nikodem Ottoline Percival Quintina Rosalind Séverine Thaddeus Ursula Valentín Wilhelmina Xiomara "
    "Yolanda Zoë Amadeus Brunhilde Casimir Delphine Evander Ginevra Horatio Isolde Jolanta Konrad Lavinia "
    "Montserrat Naoise Octavia"
)

FAMILY_NAMES = _words(
    "Abernathy Blackwood Castellanos Dąbek Eisenhauer Featherstone Grzybek Hollingsworth Ibáñez Jaskulski "
    "Kowalczyk Lindqvist Montefiore Nightingale Oyelaran Pettigrew Quackenbush Rosenkranz Szymanek Thistlewood "
    "Underhill Vandermeer Whitcombe Ximénez Yarborough Zielonka Ashgrove Bonaventura Cavendish Delacroix "
    "Engström Fitzwilliam Guimarães Hawthorne Iturbide Jankowiak Kirschbaum Lattimore Mendizábal Novotný"
)

# Country, currency, cities. A customer moves only within a country, so the currency of its orders never changes.
COUNTRIES = (
    ("US", "USD", ("Portland", "Austin", "Madison", "Savannah")),
    ("GB", "GBP", ("Leeds", "Bristol", "Cardiff")),
    ("DE", "EUR", ("Leipzig", "Köln", "Bremen")),
    ("FR", "EUR", ("Lyon", "Nantes", "Lille")),
    ("ES", "EUR", ("Málaga", "Bilbao")),
    ("NL", "EUR", ("Utrecht", "Delft")),
    ("PL", "PLN", ("Gdynia", "Poznań")),
    ("IT", "EUR", ("Torino", "Bologna")),
)

REGIONS = ("north", "south", "east", "west")
SEGMENTS = ("new", "regular", "vip", "business")

CATEGORIES = ("grocery", "electronics", "fashion", "home", "toys", "sports")

# Two names per line of the assortment carry a comma or a quote: ordinary for a shop, a trap for a careless CSV reader.
PRODUCT_NAMES = {
    "grocery": ("Olive oil, extra virgin", "Rye bread", "Green tea", "Dark chocolate 70%", "Rolled oats"),
    "electronics": (
        'Monitor 27" curved',
        "USB-C cable",
        "Noise cancelling headphones",
        "Keyboard, mechanical",
        "Webcam",
    ),
    "fashion": ("Wool scarf", "Denim jacket", "Running socks, 3 pairs", "Linen shirt", "Leather belt"),
    "home": ("Desk lamp", "Duvet cover, double", "Cast iron pan", "Bath towel", "Bookshelf"),
    "toys": ("Wooden train", "Puzzle, 1000 pieces", "Building blocks", "Plush bear", "Kite"),
    "sports": ("Yoga mat", 'Bicycle tube 28"', "Climbing rope, 60 m", "Football", "Swimming goggles"),
}

# Typical price of each category in cents, in the order of CATEGORIES.
CATEGORY_PRICES = (450, 8900, 3900, 2900, 1900, 2600)

ORDER_CHANNELS = ("web", "app", "store")
PAYMENT_METHODS = ("card", "paypal", "bank_transfer", "gift_card")
CAMPAIGN_CHANNELS = ("email", "social", "search", "tv")
CAMPAIGN_THEMES = (
    "Spring refresh",
    "Back to school",
    "Winter warmers",
    "Weekend flash",
    "Welcome gift",
    "Loyal friends",
)
LOYALTY_TIERS = ("bronze", "silver", "gold")

# None of these needs escaping in JSON, because lines are joined rather than serialized.
ORDER_NOTES = (
    "Please leave it with the neighbour",
    "Ring twice",
    "Gift wrapping, please",
    "Call before delivery",
    "Second floor, no lift",
)

DEVICES = ("desktop", "mobile", "tablet")
USER_AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148",
    "Mozilla/5.0 (iPad; CPU OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Version/17.5",
)
WEB_EVENT_NAMES = ("page_view", "search", "add_to_cart", "checkout", "purchase")
WEB_PAGES = ("/", "/search?q=gift", "/cart/add", "/checkout", "/thank-you")
