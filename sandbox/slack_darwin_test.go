package sandbox

// startSlack is by how many units of Proc.Start a census may reach too far back.
const startSlack = 2e6
