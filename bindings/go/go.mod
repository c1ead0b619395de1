module tensmith

go 1.21
