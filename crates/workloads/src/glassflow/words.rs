//! The words that names are made of: ASCII letters only, chosen for their lengths.
//!
//! Owns the lists. Their order and content are part of the workload's identity: changing a word changes the records of
//! every seed. Does not own how a record is made of them (`glassflow::record`).

/// 3 to 11 bytes, 5.7 in the mean.
#[rustfmt::skip] // One word a line would be three hundred lines.
pub(super) const FIRST_NAMES: [&str; 219] = [
    "Ada", "Ana", "Ben", "Eva", "Ida", "Ian", "Jon", "Kim", "Leo", "Lea", "Mia", "Max", "Noa", "Tim", "Zoe",
    "Roy", "Adam", "Alan", "Anna", "Carl", "Dora", "Emil", "Emma", "Erik", "Ezra", "Finn", "Gwen", "Hugo",
    "Iris", "Ivan", "Jack", "Jane", "Jude", "June", "Lara", "Lena", "Liam", "Lily", "Lucy", "Luke", "Mara",
    "Mark", "Nina", "Noah", "Olga", "Omar", "Otto", "Owen", "Paul", "Rosa", "Ruth", "Sara", "Sean", "Tara",
    "Theo", "Vera", "Alice", "Amira", "Anita", "Aaron", "Bella", "Bruno", "Clara", "Chloe", "David",
    "Diana", "Diego", "Elena", "Emily", "Ethan", "Felix", "Fiona", "Frida", "Grace", "Hanna", "Helen",
    "Henry", "Irene", "Isaac", "Jacob", "James", "Jason", "Julia", "Karen", "Kevin", "Laura", "Linda",
    "Louis", "Lucas", "Marco", "Maria", "Marta", "Megan", "Naomi", "Nadia", "Oscar", "Peter", "Ralph",
    "Robin", "Sarah", "Simon", "Sofia", "Steve", "Susan", "Tomas", "Vince", "Wanda", "Wendy", "Andrea",
    "Astrid", "Bianca", "Brenda", "Carlos", "Carmen", "Claire", "Connor", "Daniel", "Dennis", "Edward",
    "Esther", "George", "Gloria", "Hannah", "Hector", "Ingrid", "Jasmin", "Joanna", "Joseph", "Joshua",
    "Judith", "Justin", "Katrin", "Louise", "Marcus", "Martin", "Miriam", "Nathan", "Nicole", "Oliver",
    "Pamela", "Philip", "Rachel", "Robert", "Samuel", "Sandra", "Sophia", "Stefan", "Sylvia", "Thomas",
    "Tamara", "Ursula", "Victor", "Walter", "Yvonne", "Abigail", "Adriana", "Anthony", "Antonio", "Barbara",
    "Bernard", "Camilla", "Cynthia", "Dorothy", "Estelle", "Frances", "Gabriel", "Gregory", "Heather",
    "Jessica", "Kenneth", "Leonard", "Matthew", "Melissa", "Michael", "Natalie", "Patrick", "Rebecca",
    "Richard", "Roberto", "Stephen", "Theresa", "Timothy", "Valerie", "Vanessa", "Vincent", "William",
    "Benjamin", "Caroline", "Danielle", "Dominica", "Fernando", "Federico", "Jennifer", "Jonathan",
    "Kimberly", "Margaret", "Nicholas", "Patricia", "Penelope", "Samantha", "Virginia", "Veronica",
    "Alejandro", "Alexander", "Catherine", "Charlotte", "Christian", "Elizabeth", "Francesca", "Katharina",
    "Sebastian", "Stephanie", "Alessandra", "Bernadette", "Christophe", "Jacqueline", "Maximilian",
    "Christopher", "Maximiliano",
];

/// 3 to 12 bytes, 6.1 in the mean.
#[rustfmt::skip] // One word a line would be three hundred lines.
pub(super) const LAST_NAMES: [&str; 274] = [
    "Bay", "Cox", "Day", "Fox", "Fry", "Kay", "Kim", "Lam", "Lee", "Lim", "Ott", "Poe", "Ray", "Roy", "Tan",
    "Yun", "Adler", "Ames", "Bell", "Berg", "Bird", "Boyd", "Cole", "Cook", "Dahl", "Diaz", "Ford", "Gray",
    "Hahn", "Hall", "Hill", "Holt", "Hunt", "Kahn", "King", "Koch", "Lang", "Long", "Lund", "Moss", "Nash",
    "Park", "Pope", "Reed", "Rice", "Rios", "Ross", "Ruiz", "Ryan", "Shaw", "Todd", "Vega", "Wade", "Ward",
    "West", "Wolf", "Wood", "York", "Adams", "Allen", "Baker", "Banks", "Barth", "Blake", "Braun", "Brown",
    "Burke", "Clark", "Cohen", "Craig", "Cruz", "Davis", "Dixon", "Evans", "Falco", "Frank", "Gomez",
    "Green", "Grant", "Haas", "Hansen", "Hayes", "Heinz", "Henry", "Jones", "Klein", "Lewis", "Lopez",
    "Lucas", "Marsh", "Mason", "Meyer", "Mills", "Moore", "Ortiz", "Owens", "Patel", "Perez", "Price",
    "Quinn", "Reyes", "Rossi", "Scott", "Silva", "Smith", "Stein", "Stone", "Swift", "Vogel", "Wagner",
    "Walsh", "Weber", "White", "Young", "Aguilar", "Andrews", "Barnes", "Becker", "Bishop", "Bowman",
    "Bryant", "Butler", "Carter", "Castro", "Cooper", "Curtis", "Dawson", "Duncan", "Fisher", "Flores",
    "Foster", "Garcia", "Gibson", "Gordon", "Graham", "Harper", "Harris", "Howard", "Huber", "Hughes",
    "Jansen", "Jensen", "Keller", "Kramer", "Larsen", "Martin", "Medina", "Miller", "Morris", "Murphy",
    "Nelson", "Nguyen", "Norris", "Palmer", "Parker", "Peters", "Porter", "Powell", "Ramos", "Reimer",
    "Rivera", "Rogers", "Romero", "Sander", "Santos", "Schulz", "Taylor", "Tucker", "Turner", "Vargas",
    "Walker", "Warren", "Watson", "Weaver", "Wilson", "Winter", "Wright", "Ziegler", "Bennett", "Campbell",
    "Coleman", "Collins", "Delgado", "Douglas", "Edwards", "Fischer", "Fleming", "Freeman", "Griffin",
    "Hamilton", "Herrera", "Hoffman", "Jackson", "Jenkins", "Johnson", "Kennedy", "Lambert", "Lindberg",
    "Mendoza", "Mitchell", "Navarro", "Nichols", "Osborne", "Pearson", "Phillips", "Ramirez", "Richter",
    "Roberts", "Sanchez", "Schmidt", "Schmitt", "Simmons", "Spencer", "Stevens", "Sullivan", "Thomas",
    "Vasquez", "Wallace", "Webster", "Winkler", "Anderson", "Castillo", "Chandler", "Crawford", "Davidson",
    "Ferguson", "Franklin", "Gonzalez", "Gutierrez", "Harrison", "Hawkins", "Henderson", "Hernandez",
    "Lawrence", "Marshall", "Martinez", "McCarthy", "Morrison", "Neumann", "Petersen", "Reynolds",
    "Richards", "Robinson", "Rodriguez", "Schneider", "Schwartz", "Sorensen", "Stephens", "Thompson",
    "Whitaker", "Zimmerman", "Alexander", "Blackwell", "Christensen", "Fernandez", "Fitzgerald",
    "Hutchinson", "Kowalczyk", "Montgomery", "Richardson", "Stevenson", "Villanueva", "Washington",
    "Williamson", "Worthington", "Abernathy", "Castellanos", "Featherstone", "Hildebrandt", "Higginbotham",
    "Mastroianni", "Papadopoulos", "Schwarzkopf", "Throckmorton",
];
